import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/account-acts.test.ts'))
