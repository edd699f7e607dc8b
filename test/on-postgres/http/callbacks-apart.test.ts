import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/callbacks-apart.test.ts'))
