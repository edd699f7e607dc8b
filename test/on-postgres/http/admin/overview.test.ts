import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/overview.test.ts'))
