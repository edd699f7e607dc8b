import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/retries.test.ts'))
