import { onPostgres } from './on-postgres.ts'

onPostgres(() => import('../callbacks.test.ts'))
