import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/operations.test.ts'))
