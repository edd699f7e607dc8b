import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/records.test.ts'))
