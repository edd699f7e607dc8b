import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/callbacks.test.ts'))
