/** The API key that the playground uses, with its account, tier and limits. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, callWithKey } from '../api.ts'
import { apiError } from '../resource.ts'
import { keepPlaygroundKey, playgroundKey } from '../session.ts'

export interface Me {
  readonly account: string
  readonly tier: string
  readonly models: readonly string[]
  readonly limits: { readonly max_batch_jobs: number; readonly reads_per_minute: number }
}

export interface PlaygroundCaller {
  readonly key: string | null
  /** Null while it loads. */
  readonly me: Me | null
  /** The reason why the key cannot be used. */
  readonly error: ApiError | null
  readonly use: (key: string) => void
  readonly forget: () => void
}

export function usePlaygroundCaller(): PlaygroundCaller {
  const [key, setKey] = useState(playgroundKey())
  const [me, setMe] = useState<Me | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  const forget = () => {
    keepPlaygroundKey(null)
    setKey(null)
    setMe(null)
  }
  useEffect(() => {
    if (key === null) return
    const controller = new AbortController()
    callWithKey<Me>('/api/v1/me', key, { signal: controller.signal }).then(
      ({ data }) => {
        keepPlaygroundKey(key)
        setMe(data)
      },
      (problem: unknown) => {
        if (controller.signal.aborted) return
        forget()
        setError(apiError(problem))
      },
    )
    return () => controller.abort()
  }, [key])
  const use = (given: string) => {
    setError(null)
    setKey(given)
  }
  return { key, me, error, use, forget }
}
