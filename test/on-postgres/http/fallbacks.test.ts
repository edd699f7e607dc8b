import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/fallbacks.test.ts'))
