import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/watching.test.ts'))
