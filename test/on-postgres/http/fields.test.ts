import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/fields.test.ts'))
