import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/tiers.test.ts'))
