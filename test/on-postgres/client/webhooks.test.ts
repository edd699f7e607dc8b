import { onPostgres } from '../on-postgres.ts'

onPostgres(() => import('../../client/webhooks.test.ts'))
