/** Where the Parleys of a test file store their jobs: in a SQLite file each, unless the file chose otherwise before. */
import { join } from 'node:path'
import type { Lifetime } from './parley.ts'

/** The address of the database that belongs to this folder: the same one whenever it is asked for the same folder. */
export type Place = (t: Lifetime, folder: string) => Promise<string>

const sqlite: Place = async (_t, folder) => `sqlite:${join(folder, 'parley.db')}`

let chosen: Place = sqlite

/** For all Parleys that this process starts from now on. */
export function storeIn(place: Place): void {
  chosen = place
}

export function databaseUrl(t: Lifetime, folder: string): Promise<string> {
  return chosen(t, folder)
}
