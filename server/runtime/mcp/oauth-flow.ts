/** What the SDK's OAuth flow asks of us: who we are, what is kept of a login, and how a person is sent to log in. */
import type {
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import type { OauthSettings } from './entry.ts';
import { LoginNeeded, McpFailure } from './failure.ts';

/** What is kept of a login. */
export interface KeptLogin {
  readonly client?: StoredOAuthClientInformation | undefined;
  readonly tokens?: StoredOAuthTokens | undefined;
  /** When the access token ends, in milliseconds since 1970; absent where nobody said. */
  readonly expiresAt?: number | undefined;
}

/** How a person logs in; null where there is nobody. */
export interface Interaction {
  readonly redirectUrl: string;
  readonly state: string;
  readonly send: (authorizationUrl: URL) => void;
}

/** What an attempt needs of itself when the person comes back. */
export interface BegunFlow {
  readonly verifier: string;
  readonly discovery?: OAuthDiscoveryState | undefined;
}

export class OauthFlow implements OAuthClientProvider {
  readonly #settings: OauthSettings;
  readonly #interaction: Interaction | null;
  #kept: KeptLogin;
  #verifier: string;
  #discovery: OAuthDiscoveryState | undefined;

  /** `begun` is what an attempt has kept that goes on elsewhere, or later. */
  constructor(
    settings: OauthSettings,
    kept: KeptLogin,
    interaction: Interaction | null,
    begun: BegunFlow = { verifier: '' },
  ) {
    this.#settings = settings;
    this.#verifier = begun.verifier;
    this.#discovery = begun.discovery;
    this.#kept = kept;
    this.#interaction = interaction;
  }

  /** What is to be kept now. */
  get kept(): KeptLogin {
    return this.#kept;
  }

  get verifier(): string {
    return this.#verifier;
  }

  get discovery(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }

  get redirectUrl(): string | undefined {
    if (this.#byItself) return undefined;
    return this.#interaction?.redirectUrl ?? 'http://127.0.0.1/callback';
  }

  get clientMetadata(): OAuthClientMetadata {
    const { clientSecret, scope } = this.#settings;
    return {
      client_name: 'service',
      redirect_uris: this.redirectUrl === undefined ? [] : [this.redirectUrl],
      grant_types: this.#byItself ? ['client_credentials'] : ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: clientSecret === undefined ? 'none' : 'client_secret_basic',
      ...(scope !== undefined && { scope }),
    };
  }

  state(): string {
    return this.#interaction?.state ?? '';
  }

  clientInformation(context?: OAuthClientInformationContext): StoredOAuthClientInformation | undefined {
    const { clientId, clientSecret } = this.#settings;
    // Without one in the settings the client belongs to whichever authorization server the server names.
    const issuer = this.#settings.issuer ?? context?.issuer;
    if (clientId === undefined) return this.#kept.client;
    return {
      client_id: clientId,
      ...(clientSecret !== undefined && { client_secret: clientSecret }),
      ...(issuer !== undefined && { issuer }),
    };
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.#kept = { ...this.#kept, client };
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.#kept.tokens;
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    // Some say 0 where they do not know: a token that is over before it is used would never be sent.
    const expiresAt = tokens.expires_in ? Date.now() + tokens.expires_in * 1000 : undefined;
    this.#kept = { ...this.#kept, tokens, expiresAt };
  }

  redirectToAuthorization(url: URL): void {
    if (!this.#interaction) throw this.#unrenewed();
    // The server names it: a browser would hand other schemes to programs, or open files.
    if (!/^https?:$/.test(url.protocol))
      throw new McpFailure('its authorization server names no page to log in on');
    this.#interaction.send(url);
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  /** The code that comes back is redeemed where the person was sent, and nowhere else. */
  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#discovery;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  invalidateCredentials(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void {
    if (scope === 'all') this.#kept = {};
    if (scope === 'all' || scope === 'discovery') this.#discovery = undefined;
    if (scope === 'client') this.#kept = { ...this.#kept, client: undefined };
    if (scope === 'tokens') this.#kept = { ...this.#kept, tokens: undefined, expiresAt: undefined };
  }

  prepareTokenRequest(scope?: string): URLSearchParams | undefined {
    if (!this.#byItself) return undefined;
    return new URLSearchParams({ grant_type: 'client_credentials', ...(scope && { scope }) });
  }

  /** Where nobody has refused the refresh token, a person who logged in again would have done so for nothing. */
  #unrenewed(): McpFailure {
    if (this.#kept.tokens?.refresh_token === undefined) return new LoginNeeded('it asks for a login');
    return new McpFailure('its login cannot be renewed now: the authorization server cannot be used');
  }

  /** Whether no person takes part. */
  get #byItself(): boolean {
    return this.#settings.grant === 'client_credentials';
  }
}
