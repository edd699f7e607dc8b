import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/typed-answers.test.ts'))
