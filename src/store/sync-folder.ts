/** Makes it durable that a file is in its folder, under the name that it has now. */
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

export function syncFolderOf(path: string): void {
  // Windows does not open folders, and keeps their entries without being asked.
  if (process.platform === 'win32') return
  const fd = openSync(dirname(path), 'r')
  fsyncSync(fd)
  closeSync(fd)
}
