import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/fairness.test.ts'))
