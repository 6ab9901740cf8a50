"""Calls of poly1d and of the six families of polynomials; see calls.py."""

from __future__ import annotations

POLYNOMIALS = """
np.polynomial.polynomial.polyval(x, v)
np.polynomial.polynomial.polyval(v, t, tensor=True)
np.polynomial.polynomial.polyval(v, x, tensor=False)
np.polynomial.polynomial.polyval(2.0, [1, 2, 3])
np.polynomial.polynomial.polyval2d(v, w, t)
np.polynomial.polynomial.polyval3d(v, w, v, t)
np.polynomial.polynomial.polygrid2d(v, c, x)
np.polynomial.polynomial.polygrid3d(v, c, w, t)
np.polynomial.polynomial.polyvander(x, 3)
np.polynomial.polynomial.polyvander2d(v, w, [1, 2])
np.polynomial.polynomial.polyvander3d(v, w, v, [1, 0, 2])
np.polynomial.polynomial.polyadd(v, c)
np.polynomial.polynomial.polysub(c, v)
np.polynomial.polynomial.polymulx(v)
np.polynomial.polynomial.polymul(v, c)
np.polynomial.polynomial.polydiv(v, c)
np.polynomial.polynomial.polypow(c, 3)
np.polynomial.polynomial.polyline(v[0], 2.0)
np.polynomial.polynomial.polyfromroots(v)
np.polynomial.polynomial.polyder(v)
np.polynomial.polynomial.polyder(t, 2, 0.5, axis=2)
np.polynomial.polynomial.polyint(v)
np.polynomial.polynomial.polyint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.polynomial.polyint(t, axis=1)
np.polynomial.polynomial.polycompanion(v)
np.polynomial.polynomial.polyroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.polynomial.polyfit(g, np.sin(g), 2)
np.polynomial.polynomial.polyfit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.polynomial.polyfit(v, x.T, 1)
np.polynomial.polynomial.polytrim([1.0, 2.0, 0.0])
np.polynomial.Polynomial(v)(x)
np.polynomial.Polynomial(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.Polynomial(v) * np.polynomial.Polynomial(c) - 2.0).coef
(np.polynomial.Polynomial(v) % np.polynomial.Polynomial(c)).coef
np.polynomial.Polynomial(v, [0.0, 2.0]).deriv().coef
np.polynomial.Polynomial(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.Polynomial(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.Polynomial(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.Polynomial.fit(g, np.sin(g), 2)(v)
np.polynomial.Polynomial.fromroots(v, [0.0, 3.0]).coef
np.polynomial.Polynomial.identity([0.0, 3.0]).coef
np.polynomial.Polynomial(v).linspace(3)
str(np.polynomial.Polynomial([1.0, 2.0, 3.0]))
np.polynomial.chebyshev.chebval(x, v)
np.polynomial.chebyshev.chebval(v, t, tensor=True)
np.polynomial.chebyshev.chebval(v, x, tensor=False)
np.polynomial.chebyshev.chebval(2.0, [1, 2, 3])
np.polynomial.chebyshev.chebval2d(v, w, t)
np.polynomial.chebyshev.chebval3d(v, w, v, t)
np.polynomial.chebyshev.chebgrid2d(v, c, x)
np.polynomial.chebyshev.chebgrid3d(v, c, w, t)
np.polynomial.chebyshev.chebvander(x, 3)
np.polynomial.chebyshev.chebvander2d(v, w, [1, 2])
np.polynomial.chebyshev.chebvander3d(v, w, v, [1, 0, 2])
np.polynomial.chebyshev.chebadd(v, c)
np.polynomial.chebyshev.chebsub(c, v)
np.polynomial.chebyshev.chebmulx(v)
np.polynomial.chebyshev.chebmul(v, c)
np.polynomial.chebyshev.chebdiv(v, c)
np.polynomial.chebyshev.chebpow(c, 3)
np.polynomial.chebyshev.chebline(v[0], 2.0)
np.polynomial.chebyshev.chebfromroots(v)
np.polynomial.chebyshev.chebder(v)
np.polynomial.chebyshev.chebder(t, 2, 0.5, axis=2)
np.polynomial.chebyshev.chebint(v)
np.polynomial.chebyshev.chebint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.chebyshev.chebint(t, axis=1)
np.polynomial.chebyshev.chebcompanion(v)
np.polynomial.chebyshev.chebroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.chebyshev.chebfit(g, np.sin(g), 2)
np.polynomial.chebyshev.chebfit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.chebyshev.chebfit(v, x.T, 1)
np.polynomial.chebyshev.chebtrim([1.0, 2.0, 0.0])
np.polynomial.chebyshev.chebweight(u)
np.polynomial.chebyshev.chebgauss(3)
np.polynomial.chebyshev.cheb2poly(v)
np.polynomial.chebyshev.poly2cheb(v)
np.polynomial.Chebyshev(v)(x)
np.polynomial.Chebyshev(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.Chebyshev(v) * np.polynomial.Chebyshev(c) - 2.0).coef
(np.polynomial.Chebyshev(v) % np.polynomial.Chebyshev(c)).coef
np.polynomial.Chebyshev(v, [0.0, 2.0]).deriv().coef
np.polynomial.Chebyshev(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.Chebyshev(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.Chebyshev(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.Chebyshev.fit(g, np.sin(g), 2)(v)
np.polynomial.Chebyshev.fromroots(v, [0.0, 3.0]).coef
np.polynomial.Chebyshev.identity([0.0, 3.0]).coef
np.polynomial.Chebyshev(v).linspace(3)
str(np.polynomial.Chebyshev([1.0, 2.0, 3.0]))
np.polynomial.legendre.legval(x, v)
np.polynomial.legendre.legval(v, t, tensor=True)
np.polynomial.legendre.legval(v, x, tensor=False)
np.polynomial.legendre.legval(2.0, [1, 2, 3])
np.polynomial.legendre.legval2d(v, w, t)
np.polynomial.legendre.legval3d(v, w, v, t)
np.polynomial.legendre.leggrid2d(v, c, x)
np.polynomial.legendre.leggrid3d(v, c, w, t)
np.polynomial.legendre.legvander(x, 3)
np.polynomial.legendre.legvander2d(v, w, [1, 2])
np.polynomial.legendre.legvander3d(v, w, v, [1, 0, 2])
np.polynomial.legendre.legadd(v, c)
np.polynomial.legendre.legsub(c, v)
np.polynomial.legendre.legmulx(v)
np.polynomial.legendre.legmul(v, c)
np.polynomial.legendre.legdiv(v, c)
np.polynomial.legendre.legpow(c, 3)
np.polynomial.legendre.legline(v[0], 2.0)
np.polynomial.legendre.legfromroots(v)
np.polynomial.legendre.legder(v)
np.polynomial.legendre.legder(t, 2, 0.5, axis=2)
np.polynomial.legendre.legint(v)
np.polynomial.legendre.legint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.legendre.legint(t, axis=1)
np.polynomial.legendre.legcompanion(v)
np.polynomial.legendre.legroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.legendre.legfit(g, np.sin(g), 2)
np.polynomial.legendre.legfit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.legendre.legfit(v, x.T, 1)
np.polynomial.legendre.legtrim([1.0, 2.0, 0.0])
np.polynomial.legendre.legweight(u)
np.polynomial.legendre.leggauss(3)
np.polynomial.legendre.leg2poly(v)
np.polynomial.legendre.poly2leg(v)
np.polynomial.Legendre(v)(x)
np.polynomial.Legendre(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.Legendre(v) * np.polynomial.Legendre(c) - 2.0).coef
(np.polynomial.Legendre(v) % np.polynomial.Legendre(c)).coef
np.polynomial.Legendre(v, [0.0, 2.0]).deriv().coef
np.polynomial.Legendre(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.Legendre(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.Legendre(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.Legendre.fit(g, np.sin(g), 2)(v)
np.polynomial.Legendre.fromroots(v, [0.0, 3.0]).coef
np.polynomial.Legendre.identity([0.0, 3.0]).coef
np.polynomial.Legendre(v).linspace(3)
str(np.polynomial.Legendre([1.0, 2.0, 3.0]))
np.polynomial.laguerre.lagval(x, v)
np.polynomial.laguerre.lagval(v, t, tensor=True)
np.polynomial.laguerre.lagval(v, x, tensor=False)
np.polynomial.laguerre.lagval(2.0, [1, 2, 3])
np.polynomial.laguerre.lagval2d(v, w, t)
np.polynomial.laguerre.lagval3d(v, w, v, t)
np.polynomial.laguerre.laggrid2d(v, c, x)
np.polynomial.laguerre.laggrid3d(v, c, w, t)
np.polynomial.laguerre.lagvander(x, 3)
np.polynomial.laguerre.lagvander2d(v, w, [1, 2])
np.polynomial.laguerre.lagvander3d(v, w, v, [1, 0, 2])
np.polynomial.laguerre.lagadd(v, c)
np.polynomial.laguerre.lagsub(c, v)
np.polynomial.laguerre.lagmulx(v)
np.polynomial.laguerre.lagmul(v, c)
np.polynomial.laguerre.lagdiv(v, c)
np.polynomial.laguerre.lagpow(c, 3)
np.polynomial.laguerre.lagline(v[0], 2.0)
np.polynomial.laguerre.lagfromroots(v)
np.polynomial.laguerre.lagder(v)
np.polynomial.laguerre.lagder(t, 2, 0.5, axis=2)
np.polynomial.laguerre.lagint(v)
np.polynomial.laguerre.lagint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.laguerre.lagint(t, axis=1)
np.polynomial.laguerre.lagcompanion(v)
np.polynomial.laguerre.lagroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.laguerre.lagfit(g, np.sin(g), 2)
np.polynomial.laguerre.lagfit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.laguerre.lagfit(v, x.T, 1)
np.polynomial.laguerre.lagtrim([1.0, 2.0, 0.0])
np.polynomial.laguerre.lagweight(u)
np.polynomial.laguerre.laggauss(3)
np.polynomial.laguerre.lag2poly(v)
np.polynomial.laguerre.poly2lag(v)
np.polynomial.Laguerre(v)(x)
np.polynomial.Laguerre(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.Laguerre(v) * np.polynomial.Laguerre(c) - 2.0).coef
(np.polynomial.Laguerre(v) % np.polynomial.Laguerre(c)).coef
np.polynomial.Laguerre(v, [0.0, 2.0]).deriv().coef
np.polynomial.Laguerre(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.Laguerre(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.Laguerre(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.Laguerre.fit(g, np.sin(g), 2)(v)
np.polynomial.Laguerre.fromroots(v, [0.0, 3.0]).coef
np.polynomial.Laguerre.identity([0.0, 3.0]).coef
np.polynomial.Laguerre(v).linspace(3)
str(np.polynomial.Laguerre([1.0, 2.0, 3.0]))
np.polynomial.hermite.hermval(x, v)
np.polynomial.hermite.hermval(v, t, tensor=True)
np.polynomial.hermite.hermval(v, x, tensor=False)
np.polynomial.hermite.hermval(2.0, [1, 2, 3])
np.polynomial.hermite.hermval2d(v, w, t)
np.polynomial.hermite.hermval3d(v, w, v, t)
np.polynomial.hermite.hermgrid2d(v, c, x)
np.polynomial.hermite.hermgrid3d(v, c, w, t)
np.polynomial.hermite.hermvander(x, 3)
np.polynomial.hermite.hermvander2d(v, w, [1, 2])
np.polynomial.hermite.hermvander3d(v, w, v, [1, 0, 2])
np.polynomial.hermite.hermadd(v, c)
np.polynomial.hermite.hermsub(c, v)
np.polynomial.hermite.hermmulx(v)
np.polynomial.hermite.hermmul(v, c)
np.polynomial.hermite.hermdiv(v, c)
np.polynomial.hermite.hermpow(c, 3)
np.polynomial.hermite.hermline(v[0], 2.0)
np.polynomial.hermite.hermfromroots(v)
np.polynomial.hermite.hermder(v)
np.polynomial.hermite.hermder(t, 2, 0.5, axis=2)
np.polynomial.hermite.hermint(v)
np.polynomial.hermite.hermint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.hermite.hermint(t, axis=1)
np.polynomial.hermite.hermcompanion(v)
np.polynomial.hermite.hermroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.hermite.hermfit(g, np.sin(g), 2)
np.polynomial.hermite.hermfit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.hermite.hermfit(v, x.T, 1)
np.polynomial.hermite.hermtrim([1.0, 2.0, 0.0])
np.polynomial.hermite.hermweight(u)
np.polynomial.hermite.hermgauss(3)
np.polynomial.hermite.herm2poly(v)
np.polynomial.hermite.poly2herm(v)
np.polynomial.Hermite(v)(x)
np.polynomial.Hermite(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.Hermite(v) * np.polynomial.Hermite(c) - 2.0).coef
(np.polynomial.Hermite(v) % np.polynomial.Hermite(c)).coef
np.polynomial.Hermite(v, [0.0, 2.0]).deriv().coef
np.polynomial.Hermite(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.Hermite(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.Hermite(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.Hermite.fit(g, np.sin(g), 2)(v)
np.polynomial.Hermite.fromroots(v, [0.0, 3.0]).coef
np.polynomial.Hermite.identity([0.0, 3.0]).coef
np.polynomial.Hermite(v).linspace(3)
str(np.polynomial.Hermite([1.0, 2.0, 3.0]))
np.polynomial.hermite_e.hermeval(x, v)
np.polynomial.hermite_e.hermeval(v, t, tensor=True)
np.polynomial.hermite_e.hermeval(v, x, tensor=False)
np.polynomial.hermite_e.hermeval(2.0, [1, 2, 3])
np.polynomial.hermite_e.hermeval2d(v, w, t)
np.polynomial.hermite_e.hermeval3d(v, w, v, t)
np.polynomial.hermite_e.hermegrid2d(v, c, x)
np.polynomial.hermite_e.hermegrid3d(v, c, w, t)
np.polynomial.hermite_e.hermevander(x, 3)
np.polynomial.hermite_e.hermevander2d(v, w, [1, 2])
np.polynomial.hermite_e.hermevander3d(v, w, v, [1, 0, 2])
np.polynomial.hermite_e.hermeadd(v, c)
np.polynomial.hermite_e.hermesub(c, v)
np.polynomial.hermite_e.hermemulx(v)
np.polynomial.hermite_e.hermemul(v, c)
np.polynomial.hermite_e.hermediv(v, c)
np.polynomial.hermite_e.hermepow(c, 3)
np.polynomial.hermite_e.hermeline(v[0], 2.0)
np.polynomial.hermite_e.hermefromroots(v)
np.polynomial.hermite_e.hermeder(v)
np.polynomial.hermite_e.hermeder(t, 2, 0.5, axis=2)
np.polynomial.hermite_e.hermeint(v)
np.polynomial.hermite_e.hermeint(v, 2, [1.0, 2.0], lbnd=0.5, scl=2.0)
np.polynomial.hermite_e.hermeint(t, axis=1)
np.polynomial.hermite_e.hermecompanion(v)
np.polynomial.hermite_e.hermeroots([2.0, -3.0, 1.0]) + 0j
np.polynomial.hermite_e.hermefit(g, np.sin(g), 2)
np.polynomial.hermite_e.hermefit(g, np.sin(g), [0, 2], w=np.exp(g))
np.polynomial.hermite_e.hermefit(v, x.T, 1)
np.polynomial.hermite_e.hermetrim([1.0, 2.0, 0.0])
np.polynomial.hermite_e.hermeweight(u)
np.polynomial.hermite_e.hermegauss(3)
np.polynomial.hermite_e.herme2poly(v)
np.polynomial.hermite_e.poly2herme(v)
np.polynomial.HermiteE(v)(x)
np.polynomial.HermiteE(v, [0.0, 2.0], [-1.0, 1.0])(x)
(np.polynomial.HermiteE(v) * np.polynomial.HermiteE(c) - 2.0).coef
(np.polynomial.HermiteE(v) % np.polynomial.HermiteE(c)).coef
np.polynomial.HermiteE(v, [0.0, 2.0]).deriv().coef
np.polynomial.HermiteE(v, [0.0, 2.0]).integ(1, 0.5, 1.0).coef
np.polynomial.HermiteE(v, [0.0, 2.0]).convert(kind=np.polynomial.Legendre).coef
np.polynomial.HermiteE(v, [0.0, 2.0]).convert(domain=[1.0, 3.0]).coef
np.polynomial.HermiteE.fit(g, np.sin(g), 2)(v)
np.polynomial.HermiteE.fromroots(v, [0.0, 3.0]).coef
np.polynomial.HermiteE.identity([0.0, 3.0]).coef
np.polynomial.HermiteE(v).linspace(3)
str(np.polynomial.HermiteE([1.0, 2.0, 3.0]))
np.polynomial.polynomial.polyvalfromroots(x, v)
np.polynomial.polynomial.polyvalfromroots(v, x, tensor=False)
np.polynomial.chebyshev.chebpts1(4)
np.polynomial.chebyshev.chebpts2(4)
np.polynomial.chebyshev.chebinterpolate(lambda a: np.exp(v[0] * a), 4)
np.polynomial.polyutils.mapdomain(x, [0.0, 1.0], [v[0], 2.0])
np.polynomial.polyutils.getdomain(v)
np.polynomial.polyutils.mapparms(v[:2], [1.0, 3.0])
np.poly1d(v)(x)
np.poly1d(v)(np.poly1d(c)).c
(np.poly1d(v) * np.poly1d(c) - 2.0).c
(np.poly1d(v) / np.poly1d(c[:2]))[0].c
(np.poly1d(c) ** 3).coeffs
(1.0 - np.poly1d(c)).c
np.poly1d(c, True).c
np.poly1d(v).deriv(2).c
np.poly1d(v).integ(2, 3.0).c
np.poly1d(v)[2]
np.poly1d([1.0, -3.0, 2.0]).r
np.poly1d([0.0, 2.0, 1.0]).order
str(np.poly1d([1.0, 2.0]))
repr(np.poly1d([1.0, 2.0]))
np.polyadd(np.poly1d(v), c).c
np.polyval(np.poly1d(v), x)
"""
