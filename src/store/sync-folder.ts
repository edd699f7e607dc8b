/** Makes the name of a new file durable, by syncing its folder. */
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

export function syncFolderOf(path: string): void {
  // Windows cannot open a folder.
  if (process.platform === 'win32') return
  const fd = openSync(dirname(path), 'r')
  fsyncSync(fd)
  closeSync(fd)
}
