import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/cancelling.test.ts'))
