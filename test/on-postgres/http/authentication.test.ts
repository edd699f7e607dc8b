import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/authentication.test.ts'))
