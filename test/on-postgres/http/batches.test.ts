import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/batches.test.ts'))
