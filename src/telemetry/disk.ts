/** The free space and the size of the disk that a file is on. */
import { statfs } from 'node:fs/promises'
import { dirname } from 'node:path'

export interface Disk {
  /** The space that an unprivileged process can use. */
  readonly freeBytes: number
  readonly sizeBytes: number
}

export async function diskOf(file: string): Promise<Disk> {
  const { bsize, bavail, blocks } = await statfs(dirname(file))
  return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize }
}
