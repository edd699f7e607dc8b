import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/broken-requests.test.ts'))
