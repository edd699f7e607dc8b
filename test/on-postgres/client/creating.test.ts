import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/creating.test.ts'))
