import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/settling.test.ts'))
