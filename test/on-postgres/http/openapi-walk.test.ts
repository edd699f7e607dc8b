import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/openapi-walk.test.ts'))
