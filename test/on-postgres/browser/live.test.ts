import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../browser/live.test.ts'))
