import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../http/answers.test.ts'))
