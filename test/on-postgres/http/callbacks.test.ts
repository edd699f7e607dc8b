import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/callbacks.test.ts'))
