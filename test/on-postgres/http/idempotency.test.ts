import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/idempotency.test.ts'))
