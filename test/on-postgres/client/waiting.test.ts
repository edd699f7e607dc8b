import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/waiting.test.ts'))
