/** The journey of an operator who knows more of models than the program does. */
import { expect, test } from 'vitest';
import { example, expectShape, preferring, refusal, type Target } from './target.ts';

export function catalogJourneys(target: () => Target): void {
  test('an operator describes models, changes what was said of them by its ETag, and takes it back', async () => {
    const { operator, client, liveOnly } = target();
    const url = '/api/v1/settings/providers/catalogs/{catalog_id}';
    const model = { provider: 'house', id: 'big', context_window: 65_536, cost_per_1m_in: 0.5 };
    const created = await operator.POST('/api/v1/settings/providers/catalogs', {
      body: { name: 'House models', models: [model] },
    });
    expectShape('Catalog', created.data);
    const path = { catalog_id: example.catalog };
    await liveOnly(() => {
      path.catalog_id = created.data.id;
    });
    const { data: page } = await operator.GET('/api/v1/settings/providers/catalogs');
    expectShape('CatalogPage', page);
    await liveOnly(() => expect(page.data).toMatchObject([{ id: path.catalog_id, model_count: 1 }]));
    const read = await operator.GET(url, { params: { path } });
    expectShape('Catalog', read.data);
    const header = { 'If-Match': read.response.headers.get('ETag') ?? '' };
    const body = { name: 'House models', models: [{ ...model, context_window: 131_072 }] };
    const put = await operator.PUT(url, { params: { path, header }, body });
    expectShape('Catalog', put.data);
    await liveOnly(async () => {
      expect(put.data.models).toEqual(body.models);
      const late = await refusal(operator.PUT(url, { params: { path, header }, body }));
      expect(late).toMatchObject({ status: 412, code: 'precondition_failed' });
      const nobody = await refusal(client.GET(url, { params: { path } }));
      expect(nobody).toMatchObject({ status: 403, code: 'role_required' });
    });
    expect((await operator.DELETE(url, { params: { path } })).response.status).toBe(204);
    const gone = await refusal(operator.GET(url, { params: { path }, ...preferring(404) }));
    expect(gone).toMatchObject({ status: 404, code: 'not_found' });
  });
}
