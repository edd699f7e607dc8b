import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/reads.test.ts'))
