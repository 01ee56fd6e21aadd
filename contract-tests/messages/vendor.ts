/** The vendor's own SDK, pointed at a live server with a scripted model behind it. */
import Anthropic from '@anthropic-ai/sdk';
import { type Live, startLive } from '../live.ts';

export interface Vendor {
  readonly live: Live;
  readonly sdk: Anthropic;
}

export async function startVendor(): Promise<Vendor> {
  const live = await startLive({ SERVICE_KEEPALIVE_SECONDS: '0.1' });
  const apiKey = live.server.operatorKey;
  return { live, sdk: new Anthropic({ baseURL: live.server.url, apiKey, maxRetries: 0 }) };
}

export const model = 'scripted:scripted-1';

/** The smallest request. */
export const hello = { model, max_tokens: 100, messages: [{ role: 'user' as const, content: 'Hello' }] };

/** What the SDK throws for a call. */
export async function failureOf(call: Promise<unknown>): Promise<InstanceType<typeof Anthropic.APIError>> {
  const outcome: unknown = await call.then(
    () => 'it succeeded',
    (error: unknown) => error,
  );
  if (outcome instanceof Anthropic.APIError) return outcome;
  throw new Error('An APIError was due', { cause: outcome });
}
