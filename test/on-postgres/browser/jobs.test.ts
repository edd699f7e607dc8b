import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../browser/jobs.test.ts'))
