import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/job-acts.test.ts'))
