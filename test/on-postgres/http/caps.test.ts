import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/caps.test.ts'))
