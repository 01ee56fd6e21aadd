/** Catalogues of models in the store: which node asks a URL, and what becomes of what it brings. */
import { expect, it } from 'vitest';
import { describeStores, newAccount } from './test-stores.ts';

describeStores('Catalogues of models', (store) => {
  it('gives a URL that is due to one of many who ask, and again once the time is over', async () => {
    const catalogs = store().modelCatalogs;
    const url = 'https://models.example.com/catalog.json';
    await catalogs.setEnvironment(url);
    await catalogs.setEnvironment(url);
    const later = Date.now() + 60_000;
    const claims = await Promise.all([1, 2, 3, 4].map(() => catalogs.claimDue(later)));
    const given = claims.filter((claim) => claim !== null);
    expect(given).toMatchObject([{ source: 'environment', url, failures: 0 }]);
    expect(await catalogs.claimDue(later)).toBeNull();
    const [due] = given;
    if (!due) throw new Error('nobody was given the URL');
    await catalogs.looked(due, { fault: 'Nobody answers there.' }, 0);
    expect(await catalogs.claimDue(later)).toMatchObject({ id: due.id, failures: 1 });
    // The environment names another one by now: what the first URL brings is of no interest.
    await catalogs.setEnvironment('https://other.example.com/catalog.json');
    const models = [{ provider: 'house', id: 'big' }];
    await catalogs.looked(due, { models, version: null }, later);
    expect(await catalogs.claimDue(later)).toMatchObject({ url: 'https://other.example.com/catalog.json' });
    await catalogs.setEnvironment(null);
    expect(await catalogs.marks()).toEqual([]);
  });

  it('keeps what a URL brought from counting for a catalogue that was given another one meanwhile', async () => {
    const operator = await newAccount(store(), 'Ada');
    const catalogs = store().modelCatalogs;
    const written = { name: 'Far', models: [], version: null, nextCheckAt: 0 };
    const { catalog } = await catalogs.create(operator, { ...written, url: 'https://one.example.com/' });
    const due = await catalogs.claimDue(Date.now() + 60_000);
    if (!due) throw new Error('nobody was given the URL');
    await catalogs.replace(operator, catalog.id, { ...written, url: 'https://two.example.com/' }, '*');
    await catalogs.looked(due, { models: [{ provider: 'house', id: 'big' }], version: '"1"' }, Date.now());
    expect(await catalogs.modelsOf(catalog.id)).toEqual([]);
    await catalogs.delete(operator, catalog.id, undefined);
  });
});
