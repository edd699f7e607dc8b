import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/access.test.ts'))
