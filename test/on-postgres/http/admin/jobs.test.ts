import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/jobs.test.ts'))
