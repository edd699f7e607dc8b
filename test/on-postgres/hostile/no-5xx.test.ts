import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../hostile/no-5xx.test.ts'))
