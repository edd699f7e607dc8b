/**
 * Estimates the memory that things take from the bytes of their text, for the byte budget. The factors are measured
 * (`job-bytes.test.ts`) with ASCII text that has one character outside Latin-1, so that V8 stores every character in two
 * bytes: the most that a text can take. Of a large two-byte text that a buffer decodes, Node reports half; the factors count all.
 */
import type { Job } from '../job/job.ts'

/** A body being received: one buffer. */
const UPLOAD_FACTOR = 1
/** A received body: its buffer, its text, and the messages that were parsed from it. */
const REQUEST_FACTOR = 5
/** What a single create keeps of its body while it waits: the messages, to create the job again if it vanishes. */
const WAITING_REQUEST_FACTOR = 2
/** A running job: the JSON text of its messages, and the body of the call, as text and as a buffer. */
const JOB_FACTOR = 5
/** A callback being sent: content and payload, the body made of them, as text and as a buffer. */
const CALLBACK_FACTOR = 5
/** An answer being written: the stored result, and the response made of it. */
const ANSWER_FACTOR = 4
/** What a running job takes in addition to its text: its objects, its slot, its call. */
const JOB_BYTES = 8 * 1024
/** What any other thing takes in addition to its text. */
const FIXED_BYTES = 1024

export const uploadBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * UPLOAD_FACTOR

export const requestBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * REQUEST_FACTOR

export const waitingRequestBytes = (bodyBytes: number): number =>
  FIXED_BYTES + bodyBytes * WAITING_REQUEST_FACTOR

/** @param textBytes of messages, response format and callback as JSON text, as they are stored */
export const jobBytes = (textBytes: number): number => JOB_BYTES + textBytes * JOB_FACTOR

/** The largest text that a job may have to take at most `bytes`. */
export const jobTextWithin = (bytes: number): number =>
  Math.max(0, Math.floor((bytes - JOB_BYTES) / JOB_FACTOR))

export const callbackBytes = (bodyBytes: number): number => FIXED_BYTES + bodyBytes * CALLBACK_FACTOR

export const answerBytes = (textBytes: number): number => FIXED_BYTES + textBytes * ANSWER_FACTOR

/**
 * What the job takes while it runs, by the length of its texts in UTF-16 units: exact enough, and without a pass over the
 * texts.
 */
export function bytesOfJob({
  messagesJson,
  responseFormatJson,
  callbackJson,
}: Pick<Job, 'messagesJson' | 'responseFormatJson' | 'callbackJson'>): number {
  const length = messagesJson.length + responseFormatJson.length + (callbackJson?.length ?? 0)
  return JOB_BYTES + length * JOB_FACTOR
}
