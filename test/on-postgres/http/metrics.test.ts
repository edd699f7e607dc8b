import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/metrics.test.ts'))
