import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/accounts.test.ts'))
