/** Every error that a caller can see. */
import type { FieldError, ProblemCode, QuotaUse } from './contract/api.ts';

/** The status and the title of each code; the codes themselves are the enum of schemas/problem.yaml. */
export const problems: Readonly<Record<ProblemCode, { readonly status: number; readonly title: string }>> = {
  invalid_request: { status: 400, title: 'The request does not match the contract.' },
  invalid_json: { status: 400, title: 'The body is not JSON.' },
  invalid_encoding: { status: 400, title: 'The text is not valid.' },
  invalid_cursor: { status: 400, title: 'The cursor is not valid.' },
  malformed_http: { status: 400, title: 'The request is not valid HTTP.' },
  oidc_login_invalid: { status: 400, title: 'The login cannot be completed.' },
  oauth_invalid: { status: 400, title: 'The provider cannot be connected.' },
  authorization_pending: { status: 400, title: 'The login is not confirmed yet.' },
  slow_down: { status: 400, title: 'The device asks too often.' },
  access_denied: { status: 400, title: 'The login was refused.' },
  expired_token: { status: 400, title: 'The device code has expired.' },
  credential_missing: { status: 401, title: 'A credential is required.' },
  credential_invalid: { status: 401, title: 'The credential is not valid.' },
  credential_expired: { status: 401, title: 'The credential has expired.' },
  credential_conflict: { status: 401, title: 'Two different credentials were sent.' },
  login_failed: { status: 401, title: 'The login failed.' },
  otp_required: { status: 401, title: 'A one-time code is required.' },
  refresh_token_invalid: { status: 401, title: 'The refresh token is not valid.' },
  role_required: { status: 403, title: 'A role is missing.' },
  scope_required: { status: 403, title: 'A scope is missing.' },
  login_required: { status: 403, title: 'A login is required.' },
  password_wrong: { status: 403, title: 'The password is wrong.' },
  otp_invalid: { status: 403, title: 'The one-time code is not valid.' },
  account_suspended: { status: 403, title: 'The account is suspended.' },
  address_refused: { status: 403, title: 'The address is not allowed.' },
  registration_refused: { status: 403, title: 'Registration is by invitation.' },
  permission_mode_refused: { status: 403, title: 'The permission mode is not allowed.' },
  path_refused: { status: 403, title: 'The path is refused.' },
  restricted_section: { status: 403, title: 'The section is restricted.' },
  email_domain_refused: { status: 403, title: 'The domain is not allowed.' },
  not_found: { status: 404, title: 'Not found.' },
  operation_not_found: { status: 404, title: 'There is no such path.' },
  corpus_not_found: { status: 404, title: 'There is no such corpus.' },
  agent_not_found: { status: 404, title: 'There is no such agent profile.' },
  model_not_found: { status: 404, title: 'There is no such model.' },
  method_not_allowed: { status: 405, title: 'The path does not support this method.' },
  not_acceptable: { status: 406, title: 'No acceptable representation.' },
  request_timeout: { status: 408, title: 'The request did not arrive in time.' },
  email_taken: { status: 409, title: 'The e-mail address is taken.' },
  mfa_conflict: { status: 409, title: 'The second factor is in another state.' },
  own_account: { status: 409, title: 'This is your own account.' },
  slug_taken: { status: 409, title: 'The slug is taken.' },
  name_taken: { status: 409, title: 'The name is taken.' },
  duplicate: { status: 409, title: 'There is one like it.' },
  too_many_settings: { status: 409, title: 'There are too many settings.' },
  too_many_skills: { status: 409, title: 'Too many skills.' },
  skill_repository_conflict: { status: 409, title: 'The repository proposes something else.' },
  already_invited: { status: 409, title: 'Already invited.' },
  already_member: { status: 409, title: 'Already a member.' },
  last_key: { status: 409, title: 'The operator would be locked out.' },
  last_owner: { status: 409, title: 'The last owner remains.' },
  organization_limit: { status: 409, title: 'Too many organizations.' },
  workspace_limit: { status: 409, title: 'Too many workspaces.' },
  only_organization: { status: 409, title: 'It is the only organization.' },
  session_busy: { status: 409, title: 'The session is busy.' },
  runs_active: { status: 409, title: 'Runs are at work.' },
  message_conflict: { status: 409, title: 'The message cannot be changed.' },
  revert_conflict: { status: 409, title: 'Files cannot be restored.' },
  session_empty: { status: 409, title: 'The session has no messages.' },
  run_ended: { status: 409, title: 'The run has ended.' },
  workspace_is_default: { status: 409, title: 'The workspace is the default one.' },
  workspace_unavailable: { status: 409, title: 'The folder of the workspace cannot be used.' },
  trust_conflict: { status: 409, title: 'The file has changed.' },
  upload_conflict: { status: 409, title: 'The upload is not where the request expects it.' },
  set_by_environment: { status: 409, title: 'The environment says it.' },
  already_answered: { status: 409, title: 'Already answered.' },
  plan_is_draft: { status: 409, title: 'The plan is a draft.' },
  file_in_use: { status: 409, title: 'The file is in use.' },
  corpora_stale: { status: 409, title: 'Corpora would have to be re-indexed.' },
  ingestion_conflict: { status: 409, title: 'The ingestion job is in another state.' },
  job_conflict: { status: 409, title: 'The job is in another state.' },
  idempotency_key_in_use: { status: 409, title: 'The request is being answered.' },
  request_expired: { status: 410, title: 'The request has expired.' },
  reset_link_expired: { status: 410, title: 'The link is not good any more.' },
  invitation_gone: { status: 410, title: 'The invitation is not good.' },
  events_expired: { status: 410, title: 'The events are no longer kept.' },
  precondition_failed: { status: 412, title: 'The resource has changed.' },
  body_too_large: { status: 413, title: 'The body is too large.' },
  unsupported_media_type: { status: 415, title: 'The content type is not supported.' },
  range_not_satisfiable: { status: 416, title: 'The file has no such bytes.' },
  idempotency_key_reused: { status: 422, title: 'The key belongs to another request.' },
  broken_export: { status: 422, title: 'The export is broken.' },
  model_unknown: { status: 422, title: 'There is no such model to choose.' },
  embedder_unsuited: { status: 422, title: 'That cannot embed.' },
  reranker_unsuited: { status: 422, title: 'That cannot rerank.' },
  skill_invalid: { status: 422, title: 'The file is no skill.' },
  file_unreadable: { status: 422, title: 'The file cannot be read.' },
  precondition_required: { status: 428, title: 'If-Match is required.' },
  headers_too_large: { status: 431, title: 'The headers are too large.' },
  rate_limited: { status: 429, title: 'Too many requests.' },
  too_many_streams: { status: 429, title: 'Too many streams.' },
  queue_full: { status: 429, title: 'The queue is full.' },
  quota_exceeded: { status: 429, title: 'A quota is used up.' },
  too_many_attempts: { status: 429, title: 'Too many attempts.' },
  internal_error: { status: 500, title: 'Internal server error.' },
  media_not_configured: { status: 501, title: 'Nothing is configured for this.' },
  web_search_not_configured: { status: 501, title: 'The web cannot be searched.' },
  git_missing: { status: 501, title: 'git is missing.' },
  provider_failed: { status: 502, title: 'The model provider failed.' },
  provider_refused: { status: 502, title: 'The model provider refused to serve us.' },
  provider_request_refused: { status: 502, title: 'The model provider refused what was asked.' },
  provider_prompt_too_long: { status: 502, title: 'The conversation is too long for the model.' },
  provider_rate_limited: { status: 502, title: 'The model provider is overloaded.' },
  provider_timeout: { status: 502, title: 'The model provider did not answer in time.' },
  storage_test_failed: { status: 502, title: 'The storage failed its test.' },
  mcp_server_failed: { status: 502, title: 'The MCP server failed.' },
  oidc_provider_failed: { status: 502, title: 'The identity provider failed.' },
  embedder_failed: { status: 502, title: 'The embedder failed.' },
  web_search_failed: { status: 502, title: 'The search engine failed.' },
  web_search_refused: { status: 502, title: 'The search engine refused.' },
  web_search_rate_limited: { status: 502, title: 'The search engine was asked too often.' },
  web_search_timeout: { status: 502, title: 'The search engine did not answer in time.' },
  no_provider_configured: { status: 503, title: 'No model provider is configured.' },
  draining: { status: 503, title: 'The server is stopping.' },
  overloaded: { status: 503, title: 'The server is overloaded.' },
  database_unavailable: { status: 503, title: 'The database is not available.' },
  storage_unavailable: { status: 503, title: 'The storage of files does not answer.' },
  storage_full: { status: 507, title: 'The disk is full.' },
};

/** What a problem may carry besides its code and its sentence. */
export interface ProblemExtras {
  /** Each place that does not match the contract. */
  readonly errors?: readonly FieldError[];
  /** The limit that is used up. */
  readonly quota?: QuotaUse;
  /** Response headers, for instance `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** What failed underneath: for the log, never for the caller. */
  readonly cause?: unknown;
  /** Whose account or what else was aimed at: for the audit log, never for the caller. */
  readonly concerns?: Concern | undefined;
  readonly details?: ProblemDetails;
}

/** What clients of the Messages surface read of a failure, where there is more than its type. */
export interface ProblemDetails {
  readonly error_code: string;
  readonly unsupported?: string[];
}

/** What a refused request was aimed at. */
export interface Concern {
  readonly type: string;
  readonly id: string;
}

/** An error for the caller: throw it where the fact is known; only http/ renders it. */
export class Problem extends Error {
  readonly code: ProblemCode;
  readonly errors: readonly FieldError[] | undefined;
  readonly quota: QuotaUse | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly concerns: Concern | undefined;
  readonly details: ProblemDetails | undefined;

  /** `detail` says what happened here, and what to do about it. */
  constructor(code: ProblemCode, detail: string, extras: ProblemExtras = {}) {
    super(detail, { cause: extras.cause });
    this.name = 'Problem';
    this.code = code;
    this.errors = extras.errors;
    this.quota = extras.quota;
    this.headers = extras.headers ?? {};
    this.concerns = extras.concerns;
    this.details = extras.details;
  }

  get status(): number {
    return problems[this.code].status;
  }

  get title(): string {
    return problems[this.code].title;
  }
}
