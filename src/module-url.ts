/** Finds the URL of a module that is started instead of imported, such as a thread. */
import { extname } from 'node:path'

/**
 * The URL has the same extension as the importer, because the program may run from its sources or compiled to JavaScript.
 * @param source the path of the module's source relative to the importer, such as `./thread.ts`
 * @param here the importer's `import.meta.url`
 */
export function moduleURL(source: string, here: string): URL {
  return new URL(source.replace(/\.ts$/, extname(here)), here)
}
