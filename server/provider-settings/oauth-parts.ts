/** What OAuth connections of provider settings are worked on with, and what of them is sealed. */
import type { Clock } from '../clock.ts';
import type { ProviderOauthClient } from '../contract/api.ts';
import type { Log } from '../log.ts';
import type { Sealing } from './stored.ts';

/** A connection as the store has it. */
export interface OauthConnection {
  readonly tokens: string;
  readonly expiresAt: number | null;
  readonly scopes: readonly string[];
  readonly fault: string | null;
  /** Whether a renewal was begun whose answer nobody has heard: a node was stopped in its middle, or the network was cut. */
  readonly answerLost: boolean;
  readonly revision: number;
}

type NewTokens = Pick<OauthConnection, 'tokens' | 'expiresAt' | 'scopes'>;

export interface OauthAttempt {
  readonly stateHash: string;
  readonly sealed: string;
  readonly nextPollAt: number;
  readonly expiresAt: number;
}

/** The store fits, whoever it asks for. */
export interface OauthRecords<Who> {
  begin(who: Who, settingId: string, attempt: OauthAttempt): Promise<void>;
  attempt(who: Who, settingId: string, stateHash: string): Promise<OauthAttempt | null>;
  endAttempt(who: Who, settingId: string, stateHash: string): Promise<boolean>;
  postpone(who: Who, settingId: string, nextPollAt: number): Promise<void>;
  connect(who: Who, settingId: string, tokens: NewTokens): Promise<void>;
  disconnect(who: Who, settingId: string): Promise<void>;
  find(settingId: string): Promise<OauthConnection | null>;
  claim(settingId: string, revision: number, until: number): Promise<boolean>;
  renewed(settingId: string, revision: number, tokens: NewTokens): Promise<void>;
  notRenewed(
    settingId: string,
    revision: number,
    why: Pick<OauthConnection, 'fault' | 'answerLost'>,
  ): Promise<void>;
}

export interface OauthParts<Who = never> {
  readonly records: OauthRecords<Who>;
  readonly sealing: Sealing;
  /** By which URLs are reached that somebody with an account gave. */
  readonly fetch: typeof globalThis.fetch;
  /** Why the guard would not let them be; null where it would. */
  readonly refusalOf: (url: string) => Error | null;
  /**
   * Does it in no transaction of whoever asks: a refresh token may be good once, and is lost where what it was traded for
   * is taken back.
   */
  readonly apart: <T>(work: () => Promise<T>) => Promise<T>;
  readonly clock: Clock;
  readonly log: Log;
}

export interface SealedTokens {
  readonly client: ProviderOauthClient;
  readonly access_token: string;
  readonly refresh_token?: string;
  /** When it was issued. */
  readonly obtained_at?: number;
}

/** What an attempt has to remember until somebody comes back. */
export interface SealedAttempt {
  readonly client: ProviderOauthClient;
  readonly scopes: readonly string[];
  /** Of the flow `code`: what proves that the one who comes back is the one who went. */
  readonly verifier?: string;
  readonly redirect_uri?: string;
  /** Of the flow `device`. */
  readonly device_code?: string;
  readonly interval?: number;
}

export function sealTokens(sealing: Sealing, id: string, tokens: SealedTokens): string {
  return sealing.seal(Buffer.from(JSON.stringify(tokens)), `provider_oauth/${id}`);
}

export function openTokens(sealing: Sealing, id: string, sealed: string): SealedTokens {
  return JSON.parse(sealing.open(sealed, `provider_oauth/${id}`).toString()) as SealedTokens; // sealed here
}

export function sealAttempt(sealing: Sealing, id: string, attempt: SealedAttempt): string {
  return sealing.seal(Buffer.from(JSON.stringify(attempt)), `provider_oauth_attempts/${id}`);
}

export function openAttempt(sealing: Sealing, id: string, sealed: string): SealedAttempt {
  return JSON.parse(sealing.open(sealed, `provider_oauth_attempts/${id}`).toString()) as SealedAttempt; // sealed here
}
