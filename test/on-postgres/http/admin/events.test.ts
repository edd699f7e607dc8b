import { onPostgres } from '../../on-postgres.ts'

onPostgres(() => import('../../../http/admin/events.test.ts'))
