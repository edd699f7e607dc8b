import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/cache.test.ts'))
