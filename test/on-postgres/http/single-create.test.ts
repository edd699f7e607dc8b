import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/single-create.test.ts'))
