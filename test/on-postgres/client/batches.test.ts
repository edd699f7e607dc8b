import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/batches.test.ts'))
